#!/usr/bin/env node

// Imported one after the other: the compile cache before what it caches, and the settings of .env before what reads them.
await import("../runtime/config/enableCompileCache.js");
await import("../runtime/config/loadEnvFile.ts");
await import("./main.ts");
