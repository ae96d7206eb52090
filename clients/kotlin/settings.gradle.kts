rootProject.name = "bellwire"
