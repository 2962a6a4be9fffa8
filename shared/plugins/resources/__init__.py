"""Resources: room for what a pod asks for, and how nodes are rated by what is free."""
