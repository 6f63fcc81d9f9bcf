"""How is a plan shown as one page for a browser, which needs nothing else?"""

from swarm_iac.page.page import Frame, page

__all__ = ["Frame", "page"]
