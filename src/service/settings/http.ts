/** Settings of paths and requests over HTTP. */
import { z } from 'zod'
import { DEADLINE_SECONDS, STREAM_IDLE_SECONDS } from '../../http/app.ts'

export const PathPrefix = z
  .string()
  .regex(/^(\/[A-Za-z0-9._~-]+)*\/?$/, 'must be a path such as /admin/tenants')
  .transform((path) => path.replace(/\/+$/, ''))

export const Group = (what: string, paths: string) =>
  z
    .strictObject({
      enabled: z.boolean().default(true).describe(`Whether to serve ${paths}`),
      prefix: PathPrefix.default('').describe(`Prefix of ${paths}`),
    })
    .prefault({})
    .describe(what)

const Seconds = z.number().min(1).max(3_600)

export const RequestSettings = z.strictObject({
  deadlineSeconds: Seconds.default(DEADLINE_SECONDS).describe(
    'Time limit of a request. `Prefer: wait=N` adds N seconds',
  ),
  streamIdleSeconds: Seconds.default(STREAM_IDLE_SECONDS).describe(
    'Time limit between two parts of an export, after the first part',
  ),
})

export const SessionSettings = z.strictObject({
  idleMinutes: z
    .number()
    .min(1)
    .max(720)
    .optional()
    .describe('Minutes without a request after which a session ends. Default: only after 12 hours'),
})
