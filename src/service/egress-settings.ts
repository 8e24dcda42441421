/** The part of the configuration that says where requests of Tenantry's own may go, and by which way. */
import { z } from 'zod'
import { proxyOf } from '../kernel/egress/proxy-url.ts'

export const ProxyUrl = z.string().superRefine((text, context) => {
  const proxy = proxyOf(text)
  if ('reason' in proxy) context.addIssue({ code: 'custom', message: proxy.reason })
})

export const EgressFile = z.strictObject({
  allowPrivateNetworks: z
    .boolean()
    .default(false)
    .describe('For development: loopback and private addresses, too; refused in production'),
  allowHttp: z.boolean().default(false).describe('For development: http, too; refused in production'),
  proxy: ProxyUrl.optional().describe('What they go through: `http://user:password@host:3128`, or `https`'),
})
