// Push and ringing on Android, beside the SDK. Includes the SDK's sources' build: `includeBuild("..")` in the app's settings,
// or the published `org.bellwire:bellwire`.
plugins {
    id("com.android.library") version "8.11.0"
    kotlin("android") version "2.2.0"
}

android {
    namespace = "org.bellwire.android"
    compileSdk = 36
    defaultConfig { minSdk = 26 }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
    }
}

kotlin {
    explicitApi()
    compilerOptions { jvmTarget = org.jetbrains.kotlin.gradle.dsl.JvmTarget.JVM_1_8 }
}

repositories {
    google()
    mavenCentral()
}

dependencies {
    api("org.bellwire:bellwire:0.2.0")
    api("com.google.firebase:firebase-messaging:25.0.0")
    implementation("androidx.core:core-ktx:1.16.0")
}
