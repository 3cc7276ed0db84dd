"""What the ranks are doing: the Python face of the scope, and what is to be read from it.

`scope`: events and live state of a rank. `waitfor`: from states to a wait-for graph and a verdict
in words. `messages`: which receive took which send. `datatype`: where a datatype's bytes lie.
`trace`: what `ringside run` keeps.
"""
