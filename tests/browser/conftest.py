"""JupyterLab and a browser for the tests of this folder, and a screenshot of each that fails."""

import pytest
from browser import lab as labs
from browser import page as pages


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    with labs.running(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    with pages.chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


@pytest.fixture
def page(driver, lab, request):
    """A page; of a test that fails, what it showed is kept. Its kernels and their ranks end."""
    failed = request.session.testsfailed
    page = pages.Page(driver, lab)
    yield page
    if request.session.testsfailed > failed:
        print(f"what it showed: {page.screenshot(f'failed-{request.node.name}')}")
    lab.end_kernels()
