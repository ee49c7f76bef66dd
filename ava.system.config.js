import config from "./ava.config.js";

/**
 * The tests that start whole programs of the service, and those that need programs which neither npm nor pip installs: a
 * browser, proxies, a pooler and Helm.
 */
export default { ...config, files: ["test/**/*.system.test.ts"] };
