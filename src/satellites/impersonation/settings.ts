import { z } from 'zod'

/** No configuration allows more. */
const MAX_SECONDS = 3_600
const DEFAULT_SECONDS = 900

const Seconds = z.int().min(1).max(MAX_SECONDS)

export const Options = z
  .strictObject({
    /** The longest that somebody may ask for. */
    maxSeconds: Seconds.default(MAX_SECONDS),
    /** Of a session that names none; default 900, or `maxSeconds` where that is less. */
    defaultSeconds: Seconds.optional(),
  })
  .refine(({ maxSeconds, defaultSeconds = 0 }) => defaultSeconds <= maxSeconds, {
    error: 'more than maxSeconds',
    path: ['defaultSeconds'],
  })
export type ImpersonationOptions = z.input<typeof Options>

export interface Durations {
  readonly maxSeconds: number
  readonly defaultSeconds: number
}

export const withDefaults = ({ maxSeconds, defaultSeconds }: z.output<typeof Options>): Durations => ({
  maxSeconds,
  defaultSeconds: defaultSeconds ?? Math.min(DEFAULT_SECONDS, maxSeconds),
})

/** What is shown in lists, terminals and names, on one line: no control character, and nothing that turns the direction of writing. */
const ONE_LINE = /^[^\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]*$/u
const isOneLine = (text: string): boolean => text.isWellFormed() && ONE_LINE.test(text)
const SAYS_SOMETHING = /[\p{L}\p{N}\p{S}]/u

const Name = z
  .string()
  .min(1)
  .max(200)
  .refine(isOneLine, 'holds control characters')
  .refine((text) => text.trim() !== '', 'is blank')

export const UserId = Name.meta({
  description: 'As the host calls the user; not checked by Tenantry',
  example: 'user-42',
})

/** What HTTP takes. */
export const NewImpersonation = z.strictObject({
  userId: UserId,
  reason: z
    .string()
    .trim()
    .max(500)
    .refine(isOneLine, 'holds control characters')
    .refine((text) => SAYS_SOMETHING.test(text), 'is blank')
    .meta({ description: 'Why; it stands in the audit log with every request', example: 'Ticket 4711: exports fail' }),
  durationSeconds: Seconds.optional().meta({ description: 'Default 900; the configuration may allow less than 3600' }),
})

/** In code also who acts: a host knows whom it has signed in. */
export const NewImpersonationBy = NewImpersonation.extend({
  actor: z.strictObject({ id: Name, name: Name.optional() }).optional(),
})
export type NewImpersonationBy = z.input<typeof NewImpersonationBy>
