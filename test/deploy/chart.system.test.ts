import { readFile } from "node:fs/promises";
import test from "ava";
import { parse } from "yaml";
import { podsOf, selects, withKind } from "./manifests.ts";
import { checkManifests, lintChart, renderChart } from "./renderChart.ts";
import type { Values } from "./renderChart.ts";

/* The Helm chart in deploy/helm/impact, as Helm renders it. chartPods.test.ts runs what its Pods run. */

const readText = (path: string): Promise<string> =>
  readFile(new URL(`../../${path}`, import.meta.url), "utf8");

test("the examples, and everything that can be enabled, give manifests that Kubernetes accepts", async (t) => {
  await lintChart("minimal");
  await lintChart("production");
  const examples = [await renderChart("minimal"), await renderChart("production")];
  const everything = await renderChart("production", {
    "worker.autoscaling.enabled": "true",
    "temporal.apiKey.existingSecret": "impact-temporal",
    "image.pullSecrets[0]": "registry",
    "extraEnvironment[0].name": "NODE_OPTIONS",
    "extraEnvironment[0].value": "--max-old-space-size=768",
    "serviceAccount.annotations.example\\.org/role": "impact",
    "worker.tolerations[0].key": "spot",
    "worker.nodeSelector.pool": "workers",
    "worker.podLabels.team": "impact",
    "worker.podAnnotations.example\\.org/team": "impact",
    "worker.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key":
      "metadata.name",
    "worker.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].operator":
      "Exists",
    "api.service.annotations.example\\.org/zone": "a",
    "ingress.annotations.example\\.org/class": "a",
  });
  t.is(await checkManifests([...examples.flat(), ...everything]), "");
});

test("a field that Kubernetes does not have is noticed", async (t) => {
  const [configMap] = withKind(await renderChart("minimal"), "ConfigMap");
  const wrong = { apiVersion: "v1", kind: "ConfigMap", ...configMap, values: {} } as const;
  t.regex(await checkManifests([wrong]), /'"values"' does not exist/u);
});

const REJECTED: readonly (readonly [values: Values, message: RegExp])[] = [
  [{ nonsense: "1" }, /additional properties 'nonsense' not allowed/u],
  [{ "settings.NONSENSE": "1" }, /at '\/settings': invalid propertyName 'NONSENSE'/u],
  [{ "settings.PORT": "9000" }, /at '\/settings': invalid propertyName 'PORT'/u],
  [
    { "settings.STRIPE_SECRET_KEY": "sk_live_1" },
    /at '\/settings': invalid propertyName 'STRIPE_SECRET_KEY'/u,
  ],
  [{ "secrets.STRIPE_SECRET_KEY": "sk_live_1" }, /got string, want object/u],
  [{ "secrets.NONSENSE.existingSecret": "x" }, /at '\/secrets': additional properties 'NONSENSE'/u],
  [
    { "secrets.CHANGE_PUBLIC_KEY.existingSecret": "x" },
    /'CHANGE_SECRET_KEY' required, if 'CHANGE_PUBLIC_KEY' exists/u,
  ],
  [{ "settings.PLANTING_PARTNER": "treemapper" }, /missing property 'TREEMAPPER_API_KEY'/u],
  [
    { "extraEnvironment[0].name": "STRIPE_SECRET_KEY", "extraEnvironment[0].value": "sk_live_1" },
    /at '\/extraEnvironment\/0\/name'/u,
  ],
  [{ "image.digest": "latest" }, /at '\/image\/digest'/u],
  [{ "api.podDisruptionBudget.maxUnavailable": "0" }, /maxUnavailable.*minimum: got 0, want 1/su],
  [
    { "migration.enabled": "false", "secrets.DATABASE_OWNER_URL.existingSecret": "x" },
    /DATABASE_OWNER_URL is for the migration, but migration\.enabled is false/u,
  ],
  [{ "api.autoscaling.minReplicas": "9" }, /minReplicas \(9\) must not exceed maxReplicas \(6\)/u],
  [
    { "worker.autoscaling.enabled": "true", "worker.resources.requests.cpu": "null" },
    /worker\.autoscaling needs worker\.resources\.requests\.cpu/u,
  ],
  [{ "database.tls.ca": "ca.crt" }, /database\.tls: existingSecret names the Secret/u],
  [
    { "database.tls.existingSecret": "x", "database.tls.certificate": "tls.crt" },
    /database\.tls: set certificate and key together/u,
  ],
  [{ "temporal.tls.serverName": "x" }, /temporal\.tls\.enabled is false/u],
  [
    { "ingress.enabled": "true", "ingress.standaloneHost": "x.example.org" },
    /ingress\.tlsSecret is required/u,
  ],
  [{ "ingress.enabled": "true", "ingress.tlsSecret": "x" }, /ingress needs standaloneHost/u],
  [
    { "metrics.serviceMonitor.enabled": "true" },
    /list Prometheus under networkPolicy\.monitoring/u,
  ],
  [{ publicBaseUrl: "" }, /publicBaseUrl is required/u],
  [{ "image.repository": "" }, /image\.repository is required/u],
  [{ "temporal.address": "" }, /temporal\.address is required/u],
];

for (const [values, message] of REJECTED) {
  test(`the chart rejects ${JSON.stringify(values)}`, async (t) => {
    await t.throwsAsync(renderChart("minimal", values), { message });
  });
}

test("the chart's defaults say what is missing", async (t) => {
  await t.throwsAsync(
    renderChart(null, {
      "image.repository": "registry.example.org/impact",
      publicBaseUrl: "https://impact.example.org",
      "temporal.address": "temporal:7233",
    }),
    { message: /secrets\.DATABASE_URL is required/u },
  );
});

test("the alerts are those of deploy/prometheus, and their jobs are scraped", async (t) => {
  const text = await readText("deploy/prometheus/rules.yml");
  const manifests = await renderChart("production");
  const [rule] = withKind(manifests, "PrometheusRule");
  t.deepEqual<unknown, unknown>(rule?.spec, parse(text));

  const monitors = withKind(manifests, "ServiceMonitor");
  t.deepEqual(
    monitors.map(({ spec }) => spec?.endpoints?.[0]?.relabelings?.[0]?.replacement),
    ["impact-api", "impact-worker"],
  );
  t.true(text.includes('job=~"impact-(api|worker)"'));
  for (const { spec } of monitors) {
    const services = withKind(manifests, "Service").filter(({ metadata }) =>
      selects(spec?.selector, metadata?.labels),
    );
    t.is(services.length, 1);
    t.deepEqual(
      services[0]?.spec?.ports?.map(({ name }) => name),
      spec?.endpoints?.map(({ port }) => port),
    );
  }
});

test("every selector selects the Pods of one part, and every port exists there", async (t) => {
  const manifests = await renderChart("production");
  const pods = podsOf(manifests);
  const partsOf = (selector: Parameters<typeof selects>[0]): readonly string[] =>
    pods.filter(({ labels }) => selects(selector, labels)).map(({ part }) => part);

  for (const { metadata, spec } of withKind(manifests, "Deployment")) {
    t.deepEqual(partsOf(spec?.selector), [metadata?.labels?.["app.kubernetes.io/component"]]);
  }
  for (const { spec } of withKind(manifests, "PodDisruptionBudget")) {
    t.is(partsOf(spec?.selector).length, 1);
  }
  for (const { spec } of withKind(manifests, "Service")) {
    const [part, ...others] = partsOf({ matchLabels: spec?.selector ?? {} });
    t.deepEqual(others, []);
    const ports = pods.find((pod) => pod.part === part)?.container.ports ?? [];
    for (const { targetPort, port } of spec?.ports ?? []) {
      t.is(ports.find(({ name }) => name === targetPort)?.containerPort, port);
    }
  }
  const policies = withKind(manifests, "NetworkPolicy");
  t.deepEqual(
    Object.fromEntries(
      policies.map(({ metadata, spec }) => [metadata?.name, partsOf(spec?.podSelector).toSorted()]),
    ),
    {
      "impact-api": ["api"],
      "impact-worker": ["worker"],
      "impact-egress": ["api", "doctor", "migration", "worker"],
      "impact-migration-egress": ["migration"],
    },
  );
});

const ingressOf = async (values: Values): Promise<unknown> =>
  withKind(await renderChart("minimal", values), "NetworkPolicy").map(({ spec }) =>
    spec?.ingress?.map(({ ports, from }) => ({ ports: ports?.map(({ port }) => port), from })),
  );

test("only the monitoring may read the metrics; without it, nothing may", async (t) => {
  const open = { ports: [8080, 8081], from: undefined };
  t.deepEqual(await ingressOf({}), [[open], []]);
  const from = [{ podSelector: { matchLabels: { app: "prometheus" } } }];
  t.deepEqual(
    await ingressOf({ "networkPolicy.monitoring[0].podSelector.matchLabels.app": "prometheus" }),
    [[open, { ports: [9464], from }], [{ ports: [9465], from }]],
  );
});
