/** The program with billing, and a tenancy with the same database and provider. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'
import { type InProcess, inProcess } from '../../cli/in-process.fixture.ts'
import { TEST_APP_KEY } from '../../testing/base/tenancy.ts'
import { type OpenBilling, openBilling, PLANS, SECRET } from './billing.fixture.ts'

export interface OpenProgram {
  readonly open: OpenBilling
  readonly tenantry: InProcess
  json(...line: string[]): Promise<{ code: number | string; answer: any; stderr: string }>
  end(): Promise<void>
}

export async function openProgram(): Promise<OpenProgram> {
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-billing-'))
  // The program uses the system clock.
  const open = await openBilling(inject('postgresUrl'), { provider: { start: new Date() } })
  const { stripe, products } = open.options
  const file = join(directory, 'tenantry.config.json')
  await writeFile(
    file,
    JSON.stringify({
      plans: PLANS,
      billing: { stripe: { ...stripe, apiKey: undefined, webhookSecret: undefined }, products },
    }),
  )
  const tenantry = inProcess({
    DATABASE_URL: open.url,
    TENANTRY_APP_KEY: TEST_APP_KEY,
    TENANTRY_DATA_DIR: join(directory, 'data'),
    TENANTRY_CONFIG: file,
    STRIPE_API_KEY: open.provider.apiKey,
    STRIPE_WEBHOOK_SECRET: SECRET,
    LOG_LEVEL: 'error', // the program has further satellites
  })
  return {
    open,
    tenantry,
    async json(...line) {
      const { code, stdout, stderr } = await tenantry.run(...line, '--json')
      return { code, answer: stdout === '' ? undefined : JSON.parse(stdout), stderr }
    },
    async end() {
      await tenantry.close()
      await open.end()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
