"""How does Pulumi's engine reach the provider, and who may call it?"""
