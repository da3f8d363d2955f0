"""The pages of the jobs behind `spark`: what is shown, and in which place."""
