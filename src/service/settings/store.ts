/** Settings of the store. stores.ts makes the store driver from them. */
import { z } from 'zod'
import type { StoreDriver } from '../../kernel/store/store.ts'

export const RedisUrl = z
  .string()
  .refine(
    (text) => /^rediss?:$/.test(URL.parse(text)?.protocol ?? ''),
    'must be a URL such as redis://user:password@host:6379/0',
  )

export const Store = z.union([
  z.enum(['postgres', 'memory']),
  z
    .strictObject({
      driver: z.literal('redis').describe('`redis`'),
      url: RedisUrl.optional().describe('URL of one server. Either `url` or `nodes` is required'),
      nodes: z.array(RedisUrl).min(1).readonly().optional().describe('URLs of some nodes of a cluster'),
      keyPrefix: z.string().optional().describe('Prefix of each key, for a shared server'),
      timeoutMs: z.int().min(1).optional().describe('Time limit of a response. Default: 1,000'),
    })
    .refine(({ url, nodes }) => (url === undefined) !== (nodes === undefined), {
      error: 'required, or nodes, but not both',
      path: ['url'],
    }),
  z.custom<StoreDriver>((value: any) => typeof value?.open === 'function', 'must be a store driver'),
])
