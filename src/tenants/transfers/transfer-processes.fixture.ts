/** Two placements without workers: processes started by a test carry out transfers or write notes. */
import { type Child, startChild } from '../../../test/support/child.ts'
import { openTestEnvironment } from '../../../test/support/two-servers.ts'
import { migrationsOf } from './kinds/restore-into-newer-schema.fixture.ts'
import type { ProcessCommand, ProcessOptions } from './transfer-process.fixture.ts'

const PROGRAM = new URL('./transfer-process.fixture.ts', import.meta.url)
export const NOTES = Array.from({ length: 20 }, (_, index) => `note ${index}`)
export const idle = { isLast: true, signal: new AbortController().signal }

export type ProcessesEnvironment = Awaited<ReturnType<typeof openProcessesEnvironment>>

export async function openProcessesEnvironment(serverUrl: string) {
  const environment = await openTestEnvironment(serverUrl, { role: 'api', migrations: migrationsOf('all') })
  const options: ProcessOptions = {
    url: environment.url,
    otherUrl: environment.otherUrl,
    archives: environment.archives,
  }
  return {
    ...environment,
    start: () => startChild(PROGRAM, options),
    /** Creates the tenant with its notes. */
    async install(id: string, isolation: string): Promise<void> {
      await environment.tenancy.tenants.create({ id, name: id, isolation })
      await environment.tenancy.tenants.installation.install(id, idle)
      const { db } = await environment.tenancy.tenant(id)
      await db
        .insertInto('notes')
        .values(NOTES.map((text) => ({ text })))
        .execute()
    },
  }
}

export const send = (child: Child, command: ProcessCommand) => child.request(command)
