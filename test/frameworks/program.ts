/** Serves the application with Bun or Deno, on the database of the test. Prints its URL. */
import { createTenancy, schemaPg } from 'tenantry'
import { applicationOf, CONFIG } from './application.ts'
import { fetchApplication } from './fetch-application.ts'

interface Runtimes {
  readonly Bun?: { serve(options: { port: number; hostname: string; fetch: unknown; error: unknown }): { url: URL } }
  readonly Deno?: { serve(options: object, fetch: unknown): unknown }
}

const { Bun, Deno } = globalThis as Runtimes
const { DATABASE_URL = '', TENANTRY_APP_KEY = '' } = process.env
const tenancy = await createTenancy({
  ...CONFIG,
  database: { url: DATABASE_URL },
  appKey: TENANTRY_APP_KEY,
  isolation: [schemaPg()],
  role: 'api',
})
const fetch = fetchApplication(applicationOf(tenancy))
const error = () => new Response('host', { status: 500 })

if (Bun) console.log(`serving ${Bun.serve({ port: 0, hostname: '127.0.0.1', fetch, error }).url.origin}`)
const onListen = ({ port }: { port: number }) => console.log(`serving http://127.0.0.1:${port}`)
Deno?.serve({ port: 0, hostname: '127.0.0.1', onListen, onError: error }, fetch)
