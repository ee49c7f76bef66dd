import type { ExecutionContext } from "ava";
import { readFile, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { parse } from "yaml";
import {
  parseConfig,
  SECRET_SETTING_NAMES,
  STANDARD_VARIABLES,
  VARIABLE_NAMES,
} from "../../runtime/config/config.ts";
import { testWithDatabase } from "../support/database.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import { eventually, openNamespace, startProgram, TEMPORAL_ADDRESS } from "../support/programs.ts";
import type { Manifest } from "./manifest.ts";
import {
  checkManifests,
  lintChart,
  podsOf,
  renderChart,
  selects,
  withKind,
} from "./renderChart.ts";
import type { ChartPod, Values } from "./renderChart.ts";

const test = testWithDatabase();

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

const WITHOUT_DATABASE: Values = {
  "image.repository": "registry.example.org/impact",
  publicBaseUrl: "https://impact.example.org",
  "temporal.address": "temporal:7233",
};

test("the chart's defaults say what is missing", async (t) => {
  const message = /secrets\.DATABASE_URL is required/u;
  await t.throwsAsync(renderChart(null, WITHOUT_DATABASE), { message });
});

test("the alerts are those of deploy/prometheus, and their jobs are scraped", async (t) => {
  const text = await readText("deploy/prometheus/rules.yml");
  const manifests = await renderChart("production");
  const [rule] = withKind(manifests, "PrometheusRule");
  t.deepEqual<unknown, unknown>(rule?.spec, parse(text));

  const monitors = withKind(manifests, "ServiceMonitor");
  const jobs = monitors.map(({ spec }) => spec?.endpoints?.[0]?.relabelings?.[0]?.replacement);
  t.deepEqual(jobs, ["impact-api", "impact-worker"]);
  t.true(text.includes('job=~"impact-(api|worker)"'));
  for (const { spec } of monitors) {
    const services = withKind(manifests, "Service").filter(({ metadata }) =>
      selects(spec?.selector, metadata?.labels),
    );
    t.is(services.length, 1);
    const ports = services[0]?.spec?.ports?.map(({ name }) => name);
    t.deepEqual(
      ports,
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

/** Variables of Temporal's client, which reads them itself. */
const TEMPORAL_NAMES = [
  "TEMPORAL_TLS",
  "TEMPORAL_TLS_SERVER_NAME",
  "TEMPORAL_TLS_SERVER_CA_CERT_PATH",
  "TEMPORAL_TLS_CLIENT_CERT_PATH",
  "TEMPORAL_TLS_CLIENT_KEY_PATH",
  "TEMPORAL_API_KEY",
];

const podOf = (manifests: readonly Manifest[], part: string): ChartPod => {
  const pod = podsOf(manifests).find((candidate) => candidate.part === part);
  if (pod === undefined) {
    throw new Error(`The chart has no Pod of ${part}.`);
  }
  return pod;
};

/** Returns the environment of a Pod, without what comes from a Secret. */
const environmentOf = (
  manifests: readonly Manifest[],
  { container }: ChartPod,
): Readonly<Record<string, string>> => {
  const maps = (container.envFrom ?? []).map(
    ({ configMapRef }) =>
      withKind(manifests, "ConfigMap").find(({ metadata }) => metadata?.name === configMapRef?.name)
        ?.data,
  );
  const variables = (container.env ?? []).map(({ name, value }) => [name, value ?? ""]);
  return Object.assign({}, ...maps, Object.fromEntries(variables));
};

/** Returns the files that a Pod mounts, by the path that its container sees, with the Secret and the key. */
const filesOf = ({ spec, container }: ChartPod): ReadonlyMap<string, string> => {
  const files = new Map<string, string>();
  for (const { name, mountPath } of container.volumeMounts ?? []) {
    const sources = spec.volumes?.find((volume) => volume.name === name)?.projected?.sources ?? [];
    for (const { secret } of sources) {
      for (const { key, path } of secret?.items ?? []) {
        files.set(join(mountPath, path), `${secret?.name}/${key}`);
      }
    }
  }
  return files;
};

const EVERY_SECRET: Values = Object.fromEntries(
  SECRET_SETTING_NAMES.map((name) => [`secrets.${name}.existingSecret`, name.toLowerCase()]),
);

test("every variable of a Pod is a setting, and every secret that it names is mounted", async (t) => {
  const manifests = await renderChart("minimal", EVERY_SECRET);
  const known = new Set([...VARIABLE_NAMES, ...STANDARD_VARIABLES, ...TEMPORAL_NAMES]);
  for (const example of [manifests, await renderChart("production")]) {
    for (const pod of podsOf(example)) {
      const names = Object.keys(environmentOf(example, pod));
      t.true(names.length > 10);
      const unknown = names.filter((name) => !known.has(name));
      t.deepEqual(unknown, []);
    }
  }
  const onlyForTheMigration = new Set<string>(["DATABASE_OWNER_URL"]);
  const forAll = SECRET_SETTING_NAMES.filter((name) => !onlyForTheMigration.has(name));
  for (const [part, expected] of [
    ["api", forAll],
    ["worker", forAll],
    ["doctor", forAll],
    ["migration", SECRET_SETTING_NAMES],
  ] as const) {
    const pod = podOf(manifests, part);
    const environment = environmentOf(manifests, pod);
    const files = filesOf(pod);
    const mounted = SECRET_SETTING_NAMES.filter((name) =>
      files.has(environment[`${name}_FILE`] ?? ""),
    );
    t.deepEqual(mounted, expected, part);
    t.is(files.size, expected.length);
    for (const name of expected) {
      t.is(files.get(environment[`${name}_FILE`] ?? ""), `${name.toLowerCase()}/${name}`);
    }
  }
});

test("large numbers are not rounded or written with an exponent, and an autoscaled part has no replicas that would undo the scaling", async (t) => {
  const manifests = await renderChart("production", {
    "settings.STRIPE_CALLS_PER_SECOND": "5000000",
  });
  const environment = environmentOf(manifests, podOf(manifests, "worker"));
  t.is(environment["STRIPE_CALLS_PER_SECOND"], "5000000");
  t.is(environment["TRUSTED_PROXIES"], "1");
  const replicas = withKind(manifests, "Deployment").map(({ spec }) => spec?.replicas);
  t.deepEqual(replicas, [undefined, 2]);
});

test("with the migration disabled, no Job runs", async (t) => {
  const manifests = await renderChart(null, {
    ...WITHOUT_DATABASE,
    "secrets.DATABASE_URL.existingSecret": "impact-database",
    "migration.enabled": "false",
  });
  t.deepEqual(withKind(manifests, "Job"), []);
});

/** Returns a Pod's environment without the files that exist only in a cluster. */
const environmentWithoutFiles = (manifests: readonly Manifest[], part: string) =>
  Object.fromEntries(
    Object.entries(environmentOf(manifests, podOf(manifests, part))).filter(
      ([name]) => !name.endsWith("_FILE") && !/^PGSSL.*(?:CERT|KEY)$/u.test(name),
    ),
  );

test("a Pod has longer to stop than its process takes", async (t) => {
  const manifests = await renderChart("minimal", { "api.drainSeconds": "30" });
  const graceSeconds = (part: string): number =>
    podOf(manifests, part).spec.terminationGracePeriodSeconds ?? 0;
  const { DRAIN_SECONDS } = parseConfig(environmentWithoutFiles(manifests, "api"));
  t.is(DRAIN_SECONDS, 30);
  // docs/operations.md#rolling-restarts: DRAIN_SECONDS + 10 s, and a worker ends within 25 s.
  t.true(graceSeconds("api") >= DRAIN_SECONDS + 10);
  t.true(graceSeconds("worker") > 25);
});

test("Pods have no privileges, no token, a read-only root and a memory limit", async (t) => {
  const pods = podsOf(await renderChart("production"));
  t.deepEqual(pods.map(({ part }) => part).toSorted(), ["api", "doctor", "migration", "worker"]);
  for (const { part, spec, container } of pods) {
    t.like(
      spec,
      {
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        securityContext: {
          runAsNonRoot: true,
          runAsUser: 1000,
          seccompProfile: { type: "RuntimeDefault" },
        },
      },
      part,
    );
    t.deepEqual(container.securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"] },
    });
    t.truthy(container.resources?.limits?.["memory"]);
    t.regex(container.image ?? "", /@sha256:[0-9a-f]{64}$/u);
  }
});

/** Starts the process of a Pod with its environment, on free ports, and returns what its probes get. */
const probe = async (
  t: ExecutionContext<{ readonly databaseUrl: string }>,
  part: "api" | "worker",
): Promise<readonly number[]> => {
  const manifests = await renderChart("minimal");
  const pod = podOf(manifests, part);
  const { container } = pod;
  const folder = await makeTestFolder(t);
  const environment = environmentOf(manifests, pod);
  const urlFile = join(folder, environment["DATABASE_URL_FILE"] ?? "");
  await mkdir(dirname(urlFile), { recursive: true });
  await writeFile(urlFile, t.context.databaseUrl);
  const { namespace } = await openNamespace(t);
  const [node, module, ...others] = container.command ?? [];
  t.deepEqual([node, others], ["node", []]);
  const { urls } = await startProgram(t, module === "api/main.ts" ? module : "worker/main.ts", {
    ...environment,
    // What belongs to a cluster.
    HOST: "127.0.0.1",
    METRICS_HOST: "127.0.0.1",
    PORT: "0",
    STORE_PORT: "0",
    METRICS_PORT: "0",
    WORKER_METRICS_PORT: "0",
    DRAIN_SECONDS: "0",
    DATABASE_URL_FILE: urlFile,
    TEMPORAL_ADDRESS: TEMPORAL_ADDRESS,
    TEMPORAL_NAMESPACE: namespace,
  });
  const { startupProbe, livenessProbe, readinessProbe } = container;
  const ports = (container.ports ?? []).map(({ name }) => String(name));
  t.deepEqual(ports.toSorted(), Object.keys(urls).toSorted());
  const statuses: number[] = [];
  for (const { httpGet } of [startupProbe, livenessProbe, readinessProbe].flatMap(
    (each) => each ?? [],
  )) {
    const url = `${urls[String(httpGet?.port)]}${httpGet?.path}`;
    let status = 0;
    await eventually(async () => {
      ({ status } = await fetch(url));
      // A process is ready after its first checks.
      return status !== 503;
    });
    statuses.push(status);
  }
  return statuses;
};

for (const part of ["api", "worker"] as const) {
  test(`the ${part} starts with its Pod's environment and answers its probes`, async (t) => {
    t.deepEqual(await probe(t, part), [200, 200, 200]);
  });
}
