"""The structs of `shared.kube.objects`, by what they are about."""
