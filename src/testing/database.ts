/** A fresh, empty database on a PostgreSQL server, so that no test meets what another one left. */
import { randomBytes } from 'node:crypto'
import { Database } from '../kernel/database.ts'
import { createLogger } from '../kernel/logger.ts'

export interface TestDatabase {
  readonly url: string
  /** Also when somebody is still connected: their connections are ended. */
  drop(): Promise<void>
}

/** @param serverUrl of any database there, by a role that may create others. */
export async function createTestDatabase(serverUrl: string): Promise<TestDatabase> {
  const name = `test_${randomBytes(8).toString('hex')}`
  const url = new URL(serverUrl)
  url.pathname = name
  await onServer(serverUrl, `create database ${name}`)
  return {
    url: url.href,
    drop: () => onServer(serverUrl, `drop database if exists ${name} with (force)`),
  }
}

/** Each statement by a connection of its own: none stays open between the two. */
async function onServer(serverUrl: string, statement: string): Promise<void> {
  const server = new Database({ url: serverUrl, max: 1 }, createLogger({ level: 'silent' }))
  try {
    await server.sql(statement)
  } finally {
    await server.close()
  }
}
