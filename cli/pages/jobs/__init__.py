"""The pages of the jobs behind `spark`: their content and its order."""
