import { readFile } from "node:fs/promises";
import test from "ava";
import { parse } from "yaml";
import { z } from "zod";
import { parseConfig, SETTING_NAMES } from "../../config/config.ts";
import { SECRET_SETTING_NAMES } from "../../config/readSecretFiles.ts";

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
  const text = await readFile(new URL("../../docker-compose.yml", import.meta.url), "utf8");
  const file: unknown = parse(text, { merge: true });
  return z.object({ services: z.record(z.string(), service) }).parse(file).services;
};

/** A version and a digest. */
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
  const dockerfile = await readFile(new URL("../../Dockerfile", import.meta.url), "utf8");
  const bases = [...dockerfile.matchAll(/^FROM (?<base>\S+)/gmu)].map(
    ({ groups }) => groups?.["base"],
  );
  t.is(bases.length, 2);
  t.is(new Set(bases).size, 1);
  t.regex(bases[0] ?? "", FIXED);
});

test("only the APIs and Temporal's web UI are published, on the loopback interface unless a variable says otherwise", async (t) => {
  const published = Object.entries(await readServices()).flatMap(([name, { ports }]) =>
    (ports ?? []).map((port) => `${name} ${port}`),
  );
  t.deepEqual(published, [
    "temporal-ui ${UI_PUBLISH_ADDRESS:-127.0.0.1}:8243:8080",
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
  t.deepEqual(
    passwords.filter((value) => !value.includes(":?}") && !value.startsWith("${READER_PASSWORD:+")),
    [],
  );
});

test("every variable of the service's containers is a setting, or empties one of the file .env", async (t) => {
  const services = await readServices();
  const known = new Set<string>([
    ...SETTING_NAMES,
    ...SECRET_SETTING_NAMES.map((name) => `${name}_FILE`),
  ]);
  for (const name of ["migrate", "api", "worker"]) {
    const variables = Object.entries(services[name]?.environment ?? {});
    t.true(variables.length > 5);
    t.deepEqual(
      variables.filter(([variable, value]) => !known.has(variable) && value !== ""),
      [],
      name,
    );
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
