import { z } from "zod";

const fault = z.object({
  code: z.string().optional().catch(undefined),
  message: z.string(),
  stderr: z.string().optional().catch(undefined),
});

/** What a failed system call, program or connection says about itself. */
export const errorDetails = (error: unknown): z.output<typeof fault> => {
  const { data } = fault.safeParse(error);
  return data ?? { message: String(error) };
};
