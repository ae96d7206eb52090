// The SDK for the JVM and Android. `gradle build` needs a JDK 17; the class files are Java 8's.
plugins {
    kotlin("jvm") version "2.2.0"
    `java-library`
    `maven-publish`
}

group = "org.bellwire"
version = "0.2.0"

repositories { mavenCentral() }

dependencies {
    api("org.jetbrains.kotlinx:kotlinx-coroutines-core:1.10.2")
    api("org.jetbrains.kotlinx:kotlinx-serialization-json:1.9.0")
    testImplementation("junit:junit:4.13.2")
}

kotlin {
    explicitApi()
    compilerOptions {
        jvmTarget = org.jetbrains.kotlin.gradle.dsl.JvmTarget.JVM_1_8
        allWarningsAsErrors = true
        freeCompilerArgs.addAll("-Xjdk-release=1.8", "-Xsuppress-deprecated-jvm-target-warning")
    }
}

tasks.withType<JavaCompile> { options.release = 8 }

tasks.test { systemProperty("bellwire.cases", file("../../Tests/ClientCases").path) }

publishing { publications { create<MavenPublication>("bellwire") { from(components["java"]) } } }
