// Push and ringing on Android, beside the SDK. Gradle 8.13 or later, a JDK 17 and Android's SDK build it.
plugins {
    id("com.android.library") version "8.11.0"
    kotlin("android") version "2.2.0"
    `maven-publish`
}

group = "org.bellwire"
version = "0.2.0"

android {
    namespace = "org.bellwire.android"
    compileSdk = 36
    defaultConfig { minSdk = 26 }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
    }
    publishing { singleVariant("release") { withSourcesJar() } }
}

kotlin {
    explicitApi()
    compilerOptions { jvmTarget = org.jetbrains.kotlin.gradle.dsl.JvmTarget.JVM_1_8 }
}

dependencies {
    api("org.bellwire:bellwire:0.2.0")
    api("com.google.firebase:firebase-messaging:25.0.0")
    implementation("androidx.core:core-ktx:1.16.0")
    testImplementation("junit:junit:4.13.2")
}

// The component `release` exists only once the Android plugin has made its variants.
afterEvaluate {
    publishing { publications { create<MavenPublication>("bellwire-android") { from(components["release"]) } } }
}
