"""A plan played on a virtual clock: the world, scripted clients, their leaders."""
