"""Does nothing that a recorder could see."""

from kit import say

say("nothing to record")
