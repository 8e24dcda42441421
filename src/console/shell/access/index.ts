/** Screens and actions of API tokens and browser sessions. */
import type { Action, Screen } from '../../module.ts'
import { text } from './text.ts'

export const screens: readonly Screen[] = [
  {
    path: '/tokens',
    title: text.tokens,
    needs: ['tokens.list'],
    search: 'tokens.list',
    navigation: { icon: 'key', order: 80 },
    view: () => import('./tokens.tsx'),
  },
  {
    path: '/sessions',
    title: text.sessions,
    needs: ['sessions.list'],
    search: 'sessions.list',
    navigation: { icon: 'host', order: 82 },
    view: () => import('./sessions.tsx'),
  },
]

export const actions: readonly Action[] = [
  {
    name: 'tokens.delete',
    title: `${text.revoke}…`,
    target: 'token',
    needs: ['tokens.delete'],
    isDestructive: true,
    view: () => import('./revoke.tsx'),
  },
  {
    name: 'sessions.delete',
    title: `${text.end}…`,
    target: 'session',
    needs: ['sessions.delete'],
    isDestructive: true,
    view: () => import('./end.tsx'),
  },
]
