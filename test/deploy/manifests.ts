import type { IContainer } from "kubernetes-models/v1/Container";
import type { IPodSpec } from "kubernetes-models/v1/PodSpec";
import type { Manifest } from "./manifest.ts";

type Labels = Readonly<Record<string, string>>;

/** Returns the manifests of a kind. */
export const withKind = <Kind extends Manifest["kind"]>(
  manifests: readonly Manifest[],
  kind: Kind,
): readonly Extract<Manifest, { kind: Kind }>[] =>
  manifests.filter(
    (manifest): manifest is Extract<Manifest, { kind: Kind }> => manifest.kind === kind,
  );

/** Returns whether a selector selects these labels. */
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
