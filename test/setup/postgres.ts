/**
 * Starts one PostgreSQL server for the run, in a temporary directory; `inject('postgresUrl')` is its superuser's URL.
 * Each test creates its own database with `createTestDatabase(inject('postgresUrl'))`.
 *
 * TENANTRY_TEST_POSTGRES_URL names another server, with a role that may create databases and roles.
 */
import { access, constants, mkdtemp, rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { startEmbeddedPostgres } from '../../src/service/embedded-postgres.ts'
import { endWithThisProcess } from './end-with-this-process.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    postgresUrl: string
  }
}

/** The data is discarded after the run, so that durability is not needed. */
const SETTINGS = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  max_connections: '400',
}

/** File system in memory on Linux: creating a database takes a quarter of the time. */
const MEMORY = '/dev/shm'
/** All databases and the log of a run need half of it. */
const NEEDED_BYTES = 4 * 2 ** 30

export default async function startPostgres(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const given = process.env.TENANTRY_TEST_POSTGRES_URL
  if (given) {
    project.provide('postgresUrl', given)
    return undefined
  }
  const directory = await mkdtemp(join(await fastestDirectory(), 'tenantry-test-'))
  const remove = () => rm(directory, { recursive: true, force: true })
  try {
    const server = await startEmbeddedPostgres({
      directory: join(directory, 'postgres'),
      password: 'tenantry',
      settings: SETTINGS,
    })
    const dismiss = endWithThisProcess(server.pid, directory)
    project.provide('postgresUrl', server.url)
    return async () => {
      await server.stop()
      dismiss()
      await remove()
    }
  } catch (error) {
    await remove()
    throw error
  }
}

async function fastestDirectory(): Promise<string> {
  try {
    await access(MEMORY, constants.W_OK)
    const { bavail, bsize } = await statfs(MEMORY)
    return bavail * bsize > NEEDED_BYTES ? MEMORY : tmpdir()
  } catch {
    return tmpdir() // not on this system
  }
}
