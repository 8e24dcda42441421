/** Settings of Tenantry's own requests: allowed targets and proxy. */
import { z } from 'zod'
import { proxyOf } from '../../kernel/egress/proxy-url.ts'

export const ProxyUrl = z.string().superRefine((text, context) => {
  const proxy = proxyOf(text)
  if ('reason' in proxy) context.addIssue({ code: 'custom', message: proxy.reason })
})

export const EgressFile = z.strictObject({
  allowPrivateNetworks: z
    .boolean()
    .default(false)
    .describe('Whether requests may go to loopback and private addresses. For development; rejected in production'),
  allowHttp: z
    .boolean()
    .default(false)
    .describe('Whether requests may use http. For development; rejected in production'),
  proxy: ProxyUrl.optional().describe('Proxy of these requests: `http://user:password@host:3128`, or `https`'),
})
