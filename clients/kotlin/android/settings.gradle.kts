// An app takes this build in with `includeBuild`, or from a repository: `org.bellwire:bellwire-android`.
pluginManagement {
    repositories {
        google()
        mavenCentral()
        gradlePluginPortal()
    }
}

dependencyResolutionManagement {
    repositories {
        google()
        mavenCentral()
    }
}

rootProject.name = "bellwire-android"

// Gradle takes the SDK's own build in place of the published `org.bellwire:bellwire`.
includeBuild("..")
