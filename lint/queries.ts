type Expression = {
  readonly type: string;
  readonly name?: string;
  readonly object?: Expression;
  readonly property?: Expression;
  readonly callee?: Expression;
  readonly arguments?: readonly Expression[];
};
type RuleContext = {
  readonly report: (problem: { readonly message: string; readonly node: unknown }) => void;
};

const MESSAGE =
  "declare the schema of the rows as a constant of the module: zod compiles a schema when it first parses with it";

/** `sql.type(rows)` and `sql.prepared(name, rows)` name their schema, because one that each call declares is compiled by each. */
const declaredRows = {
  create: ({ report }: RuleContext) => ({
    TaggedTemplateExpression: ({ tag }: { readonly tag: Expression }): void => {
      const { object, property } = tag.callee ?? {};
      if (object?.name !== "sql" || !["type", "prepared"].includes(property?.name ?? "")) {
        return;
      }
      const schema = tag.arguments?.at(-1);
      if (schema?.type !== "Identifier") {
        report({ message: MESSAGE, node: schema ?? tag });
      }
    },
  }),
};

// oxlint-disable-next-line import/no-default-export -- the linter loads a plugin by its default export.
export default { meta: { name: "queries" }, rules: { "declared-rows": declaredRows } };
