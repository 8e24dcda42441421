/**
 * Stores archives in a directory, with one folder for each tenant, accessible to the owner only.
 *
 *   acme/x.tar.gz.5f1c09abe2d47788.partial ──written and synced──► renamed to acme/x.tar.gz ──► folders synced
 *        │
 *        └── failed: removed; killed: listed as partial until it is deleted
 *
 * - A rename replaces the archive atomically. A reader that has opened the former file still reads it to its end.
 * - A file is synced before it gets its name, and its name is synced before `write` returns.
 * - No operation follows a symbolic link below the directory. Only plain files in folders named after a tenant are
 *   listed or read.
 */
import { randomBytes } from 'node:crypto'
import { constants, type Dirent } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, opendir, rename, rm, rmdir } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { ArchiveMissing, type Archives, type StoredArchive } from '../../tenants/transfers/archive/port.ts'
import { abortable } from './abortable.ts'
import { archiveKey, parsedKey, partialName, wholeKey } from './archive-key.ts'

const FOLDER_MODE = 0o700
const FILE_MODE = 0o600
const CHUNK_BYTES = 256 * 1024
/** Left by a killed start, and removed by the next start. */
const PROBE = '.probe'
const { O_CREAT, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_TRUNC, O_WRONLY } = constants

export interface DirectoryOptions {
  /**
   * Directory of the archives, absolute or relative to the working directory. The start creates it with access for its
   * owner only. All processes of an installation must share it.
   */
  readonly path: string
}

export function directory({ path }: DirectoryOptions): Archives {
  const root = resolve(path)
  return {
    name: 'directory',
    identity: `directory ${root}`,
    start: () => prepare(root),
    check: () => prepare(root),
    write: (key, chunks, { signal }) => write(root, key, chunks, signal),
    read: (key) => read(root, key),
    delete: (key) => remove(root, key),
    list: () => list(root),
    count: async (tenantId) => ({ objects: (await Array.fromAsync(listOf(root, tenantId))).length, versions: 0 }),
    erase: (tenantId) => eraseAll(root, tenantId),
    stop: async () => {},
  }
}

async function prepare(root: string): Promise<void> {
  const probe = join(root, PROBE)
  try {
    await make(root)
    const file = await open(probe, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, FILE_MODE)
    try {
      await file.writeFile('can be written')
      await file.sync()
    } finally {
      await file.close()
      await rm(probe, { force: true })
    }
  } catch (cause) {
    throw new Error(
      `Backups cannot be written to ${root} (${codeOf(cause)}): allow this user to write there, free disk space, or name another directory.`,
      { cause },
    )
  }
}

/**
 * Creates missing parents, too. The `recursive` option of `mkdir` does not end under some mount points, such as
 * automount's.
 */
async function make(path: string): Promise<void> {
  const attempt = () => mkdir(path, { mode: FOLDER_MODE }).catch(unless('EEXIST'))
  try {
    await attempt()
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' || dirname(path) === path) throw error
    await make(dirname(path))
    await attempt()
  }
}

async function write(root: string, key: string, chunks: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
  const { tenantId, name } = wholeKey(key)
  signal.throwIfAborted()
  const folder = join(root, tenantId)
  const partial = join(folder, partialName(name, randomBytes(8).toString('hex')))
  const file = await create(folder, partial)
  try {
    await fill(file, abortable(chunks, signal))
    signal.throwIfAborted()
    await rename(partial, join(folder, name))
  } catch (error) {
    // A file that cannot be removed stays listed as partial. The first error is the cause and is thrown.
    await rm(partial, { force: true }).catch(() => undefined)
    await removeEmpty(folder).catch(() => undefined)
    throw error
  }
  await syncDirectory(folder).catch(unless('ENOENT')) // deleted concurrently together with its folder
  await syncDirectory(root)
}

/** Repeats when a concurrent removal of the empty folder comes between its creation and that of the file. */
async function create(folder: string, path: string): Promise<FileHandle> {
  for (;;) {
    await mkdir(folder, { mode: FOLDER_MODE }).catch(unless('EEXIST'))
    await isFolder(folder)
    try {
      return await open(path, 'wx', FILE_MODE)
    } catch (error) {
      if (codeOf(error) === 'ENOENT') continue
      await removeEmpty(folder).catch(() => undefined)
      throw error
    }
  }
}

async function fill(file: FileHandle, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    for await (const chunk of chunks) await file.writeFile(chunk)
    await file.sync()
  } finally {
    await file.close()
  }
}

async function* read(root: string, key: string): AsyncGenerator<Buffer, void, undefined> {
  const { tenantId, name } = wholeKey(key)
  const file = await openPlain(await folderOf(root, tenantId), name)
  try {
    for (;;) {
      // A new buffer for each read, because the consumer may keep the previous one.
      const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
      const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES, null)
      if (bytesRead === 0) return
      yield buffer.subarray(0, bytesRead)
    }
  } finally {
    await file.close()
  }
}

async function openPlain(folder: string | undefined, name: string): Promise<FileHandle> {
  const missing = (cause?: unknown) => ArchiveMissing('Backup file not found.', { cause })
  if (folder === undefined) throw missing()
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  const file = await open(join(folder, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch((error) => {
    throw ['ENOENT', 'ELOOP'].includes(codeOf(error)) ? missing(error) : error
  })
  try {
    if ((await file.stat()).isFile()) return file
    throw missing()
  } catch (error) {
    await file.close()
    throw error
  }
}

async function remove(root: string, key: string): Promise<void> {
  const { tenantId, name, which } = archiveKey(key)
  const folder = await folderOf(root, tenantId)
  if (folder === undefined) return
  if (which === undefined) {
    // Partial archives first, because a concurrent writer may still rename them to the archive.
    for await (const { name: other } of entries(folder)) {
      const found = parsedKey(`${tenantId}/${other}`)
      if (found?.name === name && found.which !== undefined) await rm(join(folder, other), { force: true })
    }
    await rm(join(folder, name), { force: true })
  } else {
    await rm(join(folder, partialName(name, which)), { force: true })
  }
  await syncDirectory(folder).catch(unless('ENOENT'))
  await removeEmpty(folder)
}

async function* list(root: string): AsyncGenerator<StoredArchive, void, undefined> {
  for await (const tenant of await opendir(root)) {
    if (tenant.isDirectory()) yield* filesIn(root, tenant.name)
  }
}

/** Syncs the folder once. Partial archives first, because a concurrent writer may still rename them. */
async function eraseAll(root: string, tenantId: string): Promise<void> {
  const all = await Array.fromAsync(listOf(root, tenantId))
  for (const { key } of all.toSorted((a, b) => Number(b.isPartial) - Number(a.isPartial))) {
    await rm(join(root, key), { force: true })
  }
  const folder = join(root, tenantId)
  await syncDirectory(folder).catch(unless('ENOENT'))
  await removeEmpty(folder)
  if (all.length > 0) await syncDirectory(root)
}

async function* listOf(root: string, tenant: string): AsyncGenerator<StoredArchive, void, undefined> {
  const { tenantId } = wholeKey(`${tenant}/any`)
  if ((await folderOf(root, tenantId)) !== undefined) yield* filesIn(root, tenantId)
}

async function* filesIn(root: string, tenantId: string): AsyncGenerator<StoredArchive, void, undefined> {
  for await (const { name } of entries(join(root, tenantId))) {
    const key = `${tenantId}/${name}`
    const parsed = parsedKey(key)
    if (!parsed) continue
    const stats = await lstat(join(root, tenantId, name)).catch(unless('ENOENT'))
    if (!stats?.isFile()) continue
    yield { key, isPartial: parsed.which !== undefined, sizeBytes: stats.size, modifiedAt: stats.mtime }
  }
}

/** Yields nothing if the folder does not exist. */
async function* entries(folder: string): AsyncGenerator<Dirent, void, undefined> {
  const opened = await opendir(folder).catch(unless('ENOENT'))
  if (opened) yield* opened
}

/**
 * Returns undefined if the tenant has no folder. Throws if the root directory is missing, because its content is then
 * unknown.
 */
async function folderOf(root: string, tenantId: string): Promise<string | undefined> {
  const folder = join(root, tenantId)
  if (await isFolder(folder)) return folder
  await lstat(root)
  return undefined
}

/** Returns false if nothing has this path. Throws for any other kind of file, such as a symbolic link. */
async function isFolder(path: string): Promise<boolean> {
  const stats = await lstat(path).catch(unless('ENOENT'))
  if (stats && !stats.isDirectory()) throw new Error(`${path} is not a directory`)
  return stats !== undefined
}

async function removeEmpty(folder: string): Promise<void> {
  await rmdir(folder).catch(unless('ENOTEMPTY', 'EEXIST', 'ENOENT'))
}

/** Syncs the names in a directory, that is, created, renamed and removed files. */
async function syncDirectory(path: string): Promise<void> {
  const handle = await open(path, O_RDONLY)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? String(error)

const unless =
  (...codes: readonly string[]) =>
  (error: unknown): undefined => {
    if (!codes.includes(codeOf(error))) throw error
  }
