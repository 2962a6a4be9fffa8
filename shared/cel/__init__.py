"""CEL, as far as a device selector can use it: `cel_compile.compile_selector` is the way in.

Apart from `shared/dra` because it knows of no claims and no slices: text goes in, what comes out answers
for a device, within a budget of work that the caller has.
"""
