import config from "./ava.config.js";

/** Not a test: it takes the pictures in docs/images with the tests' database, API and browser. */
export default { ...config, files: ["test/dashboard/takeScreenshots.ts"] };
