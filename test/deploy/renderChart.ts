import type { IContainer } from "kubernetes-models/v1/Container";
import type { IPodSpec } from "kubernetes-models/v1/PodSpec";
import { execFile } from "node:child_process";
import { mkdir, mkdtempDisposable, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { parseAllDocuments } from "yaml";
import type { Manifest } from "./manifest.ts";

const run = promisify(execFile);
const fromRoot = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

const HELM = process.env["TEST_HELM"] ?? "helm";
const CHART = fromRoot("deploy/helm/impact");
// A Helm that was built from its module does not know the release of Kubernetes that it was made for.
const KUBERNETES = ["--kube-version", "1.34.0"];
const BUFFER_BYTES = 16 * 1024 * 1024;

export type Example = "minimal" | "production";

/** What `--set` sets. */
export type Values = Readonly<Record<string, string>>;

const argumentsOf = (example: Example | null, values: Values): readonly string[] => [
  ...KUBERNETES,
  ...(example === null ? [] : ["--values", join(CHART, "examples", `${example}.yaml`)]),
  ...Object.entries(values).flatMap(([name, value]) => ["--set", `${name}=${value}`]),
];

/** Checks the chart with these values. Rejects if Helm finds an error. */
export const lintChart = async (example: Example): Promise<void> => {
  await run(HELM, ["lint", CHART, "--strict", ...argumentsOf(example, {})]);
};

/**
 * Returns what the chart creates with these values.
 * @throws what Helm says if it rejects the values
 */
export const renderChart = async (example: Example | null, values: Values = {}) => {
  const { stdout } = await run(
    HELM,
    ["template", "impact", CHART, "--namespace", "shop", ...argumentsOf(example, values)],
    { maxBuffer: BUFFER_BYTES },
  );
  return parseAllDocuments(stdout)
    .filter(({ contents }) => contents !== null)
    .map((document) => {
      if (document.errors.length > 0) {
        throw new Error(`Helm printed malformed YAML: ${document.errors.join(", ")}`);
      }
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- checkManifests proves it.
      return document.toJS() as Manifest;
    });
};

/**
 * Returns what Kubernetes' types say about manifests: fields that do not exist, are missing, or have another type. The
 * compiler reports a field that does not exist only in a literal, so the manifests become one.
 */
export const checkManifests = async (manifests: readonly Manifest[]): Promise<string> => {
  const cache = fromRoot("node_modules/.cache");
  await mkdir(cache, { recursive: true });
  await using folder = await mkdtempDisposable(join(cache, "manifests-"));
  try {
    const file = join(folder.path, "manifests.ts");
    const literals = manifests.map((manifest) => `  ${JSON.stringify(manifest)},\n`).join("");
    const type = fromRoot("test/deploy/manifest.ts");
    await writeFile(
      file,
      `import type { Manifest } from ${JSON.stringify(type)};\nexport const manifests: readonly Manifest[] = [\n${literals}];\n`,
    );
    const options =
      "--ignoreConfig --noEmit --strict --skipLibCheck --module nodenext --target esnext";
    await run(fromRoot("node_modules/.bin/tsc"), [
      ...options.split(" "),
      "--allowImportingTsExtensions",
      file,
    ]);
    return "";
  } catch (error) {
    // The compiler prints what it finds on stdout.
    if (error instanceof Error && "stdout" in error && error.stdout !== "") {
      return String(error.stdout);
    }
    throw error;
  }
};

type Labels = Readonly<Record<string, string>>;

export const withKind = <Kind extends Manifest["kind"]>(
  manifests: readonly Manifest[],
  kind: Kind,
): readonly Extract<Manifest, { kind: Kind }>[] =>
  manifests.filter(
    (manifest): manifest is Extract<Manifest, { kind: Kind }> => manifest.kind === kind,
  );

export const selects = (
  selector: { readonly matchLabels?: Labels | undefined } | null | undefined,
  labels: Labels | undefined,
): boolean =>
  selector?.matchLabels !== undefined &&
  Object.entries(selector.matchLabels).every(([name, value]) => labels?.[name] === value);

/** A Pod that the chart creates, with its only container. */
export type ChartPod = {
  /** `api`, `worker`, `migration` or `doctor`. */
  readonly part: string;
  readonly labels: Labels;
  readonly spec: IPodSpec;
  readonly container: IContainer;
};

/** Returns the Pods of the Deployments, of the migration and of `helm test`. */
export const podsOf = (manifests: readonly Manifest[]): readonly ChartPod[] => {
  const templates = [
    ...withKind(manifests, "Deployment").map(({ spec }) => spec?.template),
    ...withKind(manifests, "Job").map(({ spec }) => spec?.template),
    ...withKind(manifests, "Pod"),
  ];
  return templates.map((template) => {
    const { metadata, spec } = template ?? {};
    const [container, ...others] = spec?.containers ?? [];
    if (spec === undefined || container === undefined || others.length > 0) {
      throw new Error("Every Pod of the chart has one container.");
    }
    const labels = metadata?.labels ?? {};
    return { part: labels["app.kubernetes.io/component"] ?? "", labels, spec, container };
  });
};
