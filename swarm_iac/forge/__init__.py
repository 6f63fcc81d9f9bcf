"""What does a forge (GitHub, Gitea, GitLab) know about a pull request, and how does it show our verdict?"""

from swarm_iac.forge.forge import Comment, Forge, ForgeApproval, Issue, PullRequest, Status
from swarm_iac.forge.opening import opened

__all__ = ["Comment", "Forge", "ForgeApproval", "Issue", "PullRequest", "Status", "opened"]
