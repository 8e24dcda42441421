/** Tests which URL commands call, and so which service receives the admin token. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadConfig } from '../../service/config.ts'
import { acquire, openDataDirectory } from '../../service/data-directory.ts'
import { programWith } from '../program.fixture.ts'
import { serviceUrl } from './service-address.ts'

const MODULE = import.meta.resolve('../../service/data-directory.ts')

test('serviceUrl returns the URL of the service that runs on the data directory, and throws after its process has ended', async () => {
  const directory = openDataDirectory(mkdtempSync(join(tmpdir(), 'tenantry-address-')))
  try {
    const config = await loadConfig({ directory, env: { TENANTRY_DATA_DIR: '.' } })
    const url = 'http://127.0.0.1:1'
    const lock = acquire(directory)
    if (!lock.held) throw new Error('The lock of the data directory is held by another process.')
    expect(() => serviceUrl(config, undefined)).toThrow(/No service is running/)
    lock.announce({ url })
    expect(serviceUrl(config, undefined)).toBe(url)
    lock.release()

    const announce = `
      import { acquire } from ${JSON.stringify(MODULE)}
      acquire(${JSON.stringify(directory)}).announce({ url: '${url}' })
      process.kill(process.pid, 'SIGKILL')`
    const through = [process.execPath, '--input-type=module', '-e', announce] as const
    expect(await programWith({}).start([], { through }).ended).toMatchObject({ code: 'SIGKILL' })
    expect(() => serviceUrl(config, undefined)).toThrow(/No service is running/)
    expect(serviceUrl(config, `${url}/`)).toBe(url)
  } finally {
    rmSync(directory, { recursive: true })
  }
})
