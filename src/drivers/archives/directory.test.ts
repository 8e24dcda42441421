import { lstat, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ArchiveMissing, type Archives } from '../../tenants/transfers/archive/port.ts'
import { blockedUntil, content, contentOf, failing, listed, MB, writing } from '../../testing/archives/subject.ts'
import { archivesSuite } from '../../testing/archives/suite.ts'
import { eventually } from '../../testing/base/tenancy.ts'
import { directory } from './directory.ts'

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
      close: () => rm(path, { recursive: true }),
    }
  },
  { parts: ['rest'], partBytes: 256 * 1024 },
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

const modeOf = async (path: string): Promise<string> => ((await stat(path)).mode & 0o777).toString(8)
const everything = async (): Promise<string[]> => (await readdir(home, { recursive: true })).toSorted()

describe('files', () => {
  let umask: number
  beforeEach(() => {
    umask = process.umask(0)
  })
  afterEach(() => {
    process.umask(umask)
  })

  test('files and folders are accessible to their owner only, with any umask', async () => {
    const own = await opened(join(home, 'a/b'))
    const gate = Promise.withResolvers<void>()
    const written = writing(own, 'acme/x', blockedUntil(10, gate.promise))
    const [partial] = await eventually(async () => {
      const found = await readdir(join(home, 'a/b/acme'))
      expect(found).toHaveLength(1)
      return found
    })
    expect(await modeOf(join(home, 'a/b/acme', partial ?? ''))).toBe('600')
    gate.resolve()
    await written
    expect(await modeOf(join(home, 'a/b/acme/x'))).toBe('600')
    for (const folder of ['a', 'a/b', 'a/b/acme']) expect(await modeOf(join(home, folder))).toBe('700')
  })

  test('the folder of a tenant is removed with its last file', async () => {
    await writing(archives, 'acme/x', content(1))
    await writing(archives, 'acme/y', content(1))
    await archives.delete('acme/x')
    expect(await everything()).toEqual(['kept', 'kept/archives', 'kept/archives/acme', 'kept/archives/acme/y'])
    await archives.delete('acme/y')
    const gone = new Error('gone')
    await expect(writing(archives, 'unknown/x', failing(1, gone))).rejects.toBe(gone)
    expect(await everything()).toEqual(['kept', 'kept/archives'])
  })
})

test('concurrent removal of an empty folder fails no writer', async () => {
  await Promise.all(
    ['a', 'b', 'c'].map(async (name) => {
      for (let round = 0; round < 80; round++) {
        await writing(archives, `acme/${name}`, content(1))
        await archives.delete(`acme/${name}`)
      }
    }),
  )
  expect(await everything()).toEqual(['kept', 'kept/archives'])
})

test('a reader receives the original content when the archive is replaced or deleted during the read', async () => {
  for (const change of [() => writing(archives, 'acme/x', content(5, 2)), () => archives.delete('acme/x')]) {
    await writing(archives, 'acme/x', content(MB, 1))
    const meanwhile = async function* () {
      for await (const chunk of archives.read('acme/x')) {
        yield chunk
        await change()
      }
    }
    expect(await contentOf(meanwhile())).toEqual(await contentOf(content(MB, 1)))
  }
})

test('a reader that stops early leaves no file open', async () => {
  await writing(archives, 'acme/x', content(MB))
  const openFiles = async () => (await readdir('/dev/fd')).length
  const before = await openFiles()
  for (let reader = 0; reader < 100; reader++) for await (const _ of archives.read('acme/x')) break
  expect(await openFiles()).toBeLessThan(before + 50)
})

describe('a start', () => {
  test('creates the directory, leaves no probe in it, and is safe to repeat', async () => {
    expect(await everything()).toEqual(['kept', 'kept/archives'])
    await Promise.all([archives.start(), opened(root), opened(root)])
    await writeFile(join(root, '.probe'), 'of a killed process')
    await archives.start()
    expect(await everything()).toEqual(['kept', 'kept/archives'])
  })

  test('in a directory without write access reports the path, the cause and the remedy', async () => {
    await writeFile(join(home, 'file'), '')
    const failure = await directory({ path: join(home, 'file/archives') })
      .start()
      .catch((error: Error) => error)
    expect(failure).toMatchObject({
      message: expect.stringContaining(`${home}/file/archives (ENOTDIR): allow this user`),
    })
    expect(failure).toMatchObject({ cause: { code: 'ENOTDIR' } })
    await expect(directory({ path: '/proc/self/fd/archives' }).start()).rejects.toThrow(/cannot be written to \/proc/)
  })

  test('does not write through a symbolic link', async () => {
    await writeFile(join(home, 'victim'), 'untouched')
    await symlink(join(home, 'victim'), join(root, '.probe'))
    await expect(archives.start()).rejects.toThrow('ELOOP')
    expect(await readFile(join(home, 'victim'), 'utf8')).toBe('untouched')
  })
})

test('a missing root directory fails every operation instead of reporting deleted archives', async () => {
  await writing(archives, 'acme/x', content(10))
  await rename(root, `${root}.elsewhere`)
  const missing = expect.objectContaining({ code: 'ENOENT' })
  await expect(writing(archives, 'acme/x', content(10))).rejects.toEqual(missing)
  await expect(contentOf(archives.read('acme/x'))).rejects.toEqual(missing)
  await expect(archives.delete('acme/x')).rejects.toEqual(missing)
  await expect(listed(archives)).rejects.toEqual(missing)
  await rename(`${root}.elsewhere`, root)
  expect(await listed(archives)).toMatchObject([{ key: 'acme/x', sizeBytes: 10 }])
})

describe('a foreign file in the directory', () => {
  const outside = () => join(home, 'outside')
  beforeEach(async () => {
    await mkdir(outside())
    await writeFile(join(outside(), 'secret'), 'foreign content')
    await writing(archives, 'acme/x', content(10))
  })

  test('is not listed unless it is a plain file with a valid key', async () => {
    const odd = ['README', '.hidden', 'Acme', 'acme/X', 'acme/.x', 'acme/x.partial.gz~']
    await mkdir(join(root, 'Acme'))
    for (const name of odd) await writeFile(join(root, name === 'Acme' ? 'Acme/x' : name), '')
    await mkdir(join(root, 'acme/folder/deep'), { recursive: true })
    await mkdir(join(root, 'empty'))
    await symlink(outside(), join(root, 'linked'))
    await symlink(join(outside(), 'secret'), join(root, 'acme/link'))
    await symlink(join(root, 'acme'), join(root, 'other'))
    expect(await listed(archives)).toMatchObject([{ key: 'acme/x', isPartial: false, sizeBytes: 10 }])
  })

  test('is not read through a symbolic link', async () => {
    const missing = expect.objectContaining({ code: ArchiveMissing.code })
    await symlink(join(outside(), 'secret'), join(root, 'acme/link'))
    await symlink(outside(), join(root, 'linked'))
    await mkdir(join(root, 'acme/folder'))
    for (const name of ['link', 'folder']) {
      await expect(contentOf(archives.read(`acme/${name}`)), name).rejects.toEqual(missing)
    }
    await expect(contentOf(archives.read('linked/secret'))).rejects.toThrow('is not a directory')
  })

  test('is neither overwritten nor deleted through a symbolic link', async () => {
    await symlink(join(outside(), 'secret'), join(root, 'acme/link'))
    await symlink(outside(), join(root, 'linked'))
    await expect(writing(archives, 'linked/secret', content(1))).rejects.toThrow('is not a directory')
    await expect(archives.delete('linked/secret')).rejects.toThrow('is not a directory')
    await writing(archives, 'acme/link', content(7))
    expect(await contentOf(archives.read('acme/link'))).toMatchObject({ bytes: 7 })
    await symlink(join(outside(), 'secret'), join(root, 'acme/second'))
    await archives.delete('acme/second')
    await expect(lstat(join(root, 'acme/second'))).rejects.toMatchObject({ code: 'ENOENT' })
    expect(await readFile(join(outside(), 'secret'), 'utf8')).toBe('foreign content')
    expect(await readdir(outside())).toEqual(['secret'])
  })
})
