import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
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

/** The chart's examples of values. */
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
export const renderChart = async (
  example: Example | null,
  values: Values = {},
): Promise<readonly Manifest[]> => {
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
  const folder = await mkdtemp(join(cache, "manifests-"));
  try {
    const file = join(folder, "manifests.ts");
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
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
};
