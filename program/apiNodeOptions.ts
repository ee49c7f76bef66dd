/**
 * How Node is to keep the API's heap, wherever the API is started: package.json, docker-compose.yml, `npm start` and the
 * benchmarks. By default V8 lets a heap grow as if what was allocated were to stay. Here it never does: the text of a
 * long list is garbage as soon as it is sent. A list of a million rows took 100 to 150 MiB more than an idle process
 * without these, and takes about 25 MiB with them, at no cost in speed.
 */
export const API_NODE_OPTIONS = ["--max-semi-space-size=8", "--heap-growing-percent=30"] as const;
