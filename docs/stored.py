"""How a stored notebook is read for the pages: folded where JupyterLab folds it."""

import nbformat

FOLDED = {"source_hidden": "hide-input", "outputs_hidden": "hide-output"}


def read(text: str) -> nbformat.NotebookNode:
    """A notebook in whose cells myst-nb finds what JupyterLab and nbconvert find elsewhere: what
    is folded away, and the alternative text of a picture."""
    notebook = nbformat.reads(text, 4)
    for cell in notebook.cells:
        hidden = cell.metadata.get("jupyter", {})
        tags = [tag for name, tag in FOLDED.items() if hidden.get(name)]
        cell.metadata["tags"] = [*cell.metadata.get("tags", []), *tags]
        for output in cell.get("outputs", ()):
            if alt := output.get("metadata", {}).get("image/png", {}).get("alt"):
                cell.metadata["mystnb"] = {"image": {"alt": alt}}
    return notebook
