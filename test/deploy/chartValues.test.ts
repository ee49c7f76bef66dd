import { readFile } from "node:fs/promises";
import test from "ava";
import { parse } from "yaml";
import { z } from "zod";
import { SETTING_NAMES } from "../../config/config.ts";
import { SECRET_SETTING_NAMES } from "../../config/readSecretFiles.ts";

/* What the Helm chart's files must have in common with the service. The system tests render the chart. */

const readText = (path: string): Promise<string> =>
  readFile(new URL(`../../${path}`, import.meta.url), "utf8");

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
    JSON.parse(await readText("deploy/helm/impact/values.schema.json")),
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
    // The image sets it.
    "WORKFLOW_BUNDLE",
    // For `npm start` only.
    "DATA_DIR",
    "TEMPORAL_CLI",
    ...SETTING_NAMES.filter((name) => name.startsWith("EMBEDDED_")),
  ]);
  t.deepEqual(
    settings.toSorted((a, b) => a.localeCompare(b)),
    SETTING_NAMES.filter((name) => !elsewhere.has(name)).toSorted((a, b) => a.localeCompare(b)),
  );
  t.deepEqual(
    Object.keys(properties.secrets.properties).toSorted(),
    SECRET_SETTING_NAMES.toSorted(),
  );
  t.deepEqual(
    definitions.settingName.enum.toSorted(),
    [...SETTING_NAMES, ...SECRET_SETTING_NAMES.map((name) => `${name}_FILE`)].toSorted(),
  );
});

test("the chart has the version of the service", async (t) => {
  const version = z.object({ version: z.string() });
  const chart = version
    .extend({ appVersion: z.string() })
    .parse(parse(await readText("deploy/helm/impact/Chart.yaml")));
  const { version: released } = version.parse(JSON.parse(await readText("package.json")));
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
