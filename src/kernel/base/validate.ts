/** Input against a schema: what a host passes in code is checked as strictly as what comes over HTTP. */
import type { z } from 'zod'
import { type InputFault, invalid } from './errors.ts'

/** The value, or `E_INVALID_REQUEST` with every fault; `where` stands before their paths. */
export function parsed<Schema extends z.ZodType>(schema: Schema, value: unknown, where = ''): z.output<Schema> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  throw invalid(faultsOf(result.error, where))
}

export const faultsOf = (error: z.ZodError, where = ''): InputFault[] =>
  error.issues.map((issue) => ({
    path: [where, ...issue.path.map(String)].filter(Boolean).join('.'),
    message: issue.message,
  }))
