import { execFile } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeEach, expect, test } from 'vitest'
import { startChild } from '../../../test/support/child.ts'
import { ArchiveMissing, type Archives } from '../../tenants/transfers/archive/port.ts'
import { content, contentOf, listed, writing } from '../../testing/archives/subject.ts'
import { archivesSuite } from '../../testing/archives/suite.ts'
import { directory } from './directory.ts'

const WRITER = new URL('./writer-process.fixture.ts', import.meta.url)
const run = promisify(execFile)

async function opened(path: string): Promise<Archives> {
  const archives = directory({ path })
  await archives.start()
  return archives
}

await archivesSuite(
  'a directory',
  async () => {
    const path = await mkdtemp(join(tmpdir(), 'tenantry-archives-'))
    return {
      open: () => opened(path),
      async crash(key) {
        const writer = await startChild(WRITER, { driver: 'directory', options: { path }, key })
        await writer.request('has written')
        await writer.kill('SIGKILL')
      },
      close: () => rm(path, { recursive: true }),
    }
  },
  { parts: ['crash', 'memory', 'writers'] },
)

let home: string
let root: string
let archives: Archives
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'tenantry-archives-'))
  root = join(home, 'kept/archives')
  archives = await opened(root)
  return () => rm(home, { recursive: true })
})
const everything = async (): Promise<string[]> => (await readdir(home, { recursive: true })).toSorted()

test('a full disk fails the write with the error of the disk and leaves no file', async () => {
  await writing(archives, 'acme/x', content(10))
  const program = `
    import { directory } from '${new URL('./directory.ts', import.meta.url)}'
    const archives = directory({ path: process.argv[1] })
    const chunks = async function* () { for (;;) yield Buffer.alloc(65536) }
    const { signal } = new AbortController()
    await archives.write('acme/x', chunks(), { signal }).catch(({ code }) => console.log(code))
    await archives.write('other/x', chunks(), { signal }).catch(({ code }) => console.log(code))`
  // A limit of one MiB per file fails a write like a full disk, without a separate disk.
  const limited = 'ulimit -f 2048; exec "$0" --input-type=module --eval "$1" "$2"'
  const { stdout } = await run('sh', ['-c', limited, process.execPath, program, root])
  expect(stdout).toBe('EFBIG\nEFBIG\n')
  expect(await everything()).toEqual(['kept', 'kept/archives', 'kept/archives/acme', 'kept/archives/acme/x'])
  expect(await contentOf(archives.read('acme/x'))).toMatchObject({ bytes: 10 })
})

test('a named pipe among the archives is neither listed nor read', async () => {
  await writing(archives, 'acme/x', content(10))
  await run('mkfifo', [join(root, 'acme/pipe')])
  expect(await listed(archives)).toMatchObject([{ key: 'acme/x', isPartial: false, sizeBytes: 10 }])
  await expect(contentOf(archives.read('acme/pipe'))).rejects.toMatchObject({ code: ArchiveMissing.code })
})
