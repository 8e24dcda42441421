/**
 * One real PostgreSQL for the whole run, in a temporary directory; `inject('postgresUrl')` is its superuser's URL. Tests do
 * not share databases on it: `createTestDatabase(inject('postgresUrl'))` makes each its own.
 *
 * TENANTRY_TEST_POSTGRES_URL names another server to use instead, by a role that may create databases and roles.
 */
import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { startEmbeddedPostgres } from '../../src/service/embedded-postgres.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    postgresUrl: string
  }
}

/** Nothing here outlives the run, so nothing has to survive a crash. */
const SETTINGS = {
  fsync: 'off',
  synchronous_commit: 'off',
  full_page_writes: 'off',
  max_connections: '400',
}

export default async function startPostgres(project: TestProject): Promise<(() => Promise<void>) | undefined> {
  const given = process.env.TENANTRY_TEST_POSTGRES_URL
  if (given) {
    project.provide('postgresUrl', given)
    return undefined
  }
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-test-'))
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

/**
 * A shell that waits for its input to end, which it does when this process is gone, however it went: Vitest calls no
 * teardown when a signal ends it. Returns what sends the shell away.
 */
function endWithThisProcess(pid: number, directory: string): () => void {
  const script = 'cat; kill -QUIT "$1"; while kill -0 "$1"; do sleep 0.1; done; rm -rf "$2"'
  const shell = spawn('sh', ['-c', script, 'sh', String(pid), directory], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  shell.unref()
  return () => shell.kill()
}
