"""How is it told that what nodes share has too little left: a rack, a site, the power of a machine?"""
