/** Console module of single sign-on. */
import { defineConsoleModule } from '../../../console/module.ts'
import { restoration } from './restoration.ts'
import { text } from './text.ts'

export default defineConsoleModule({
  name: 'sso',
  announced: ['sso.get'],
  tabs: [{ path: 'sso', title: text.sso, needs: ['sso.get'], order: 85, view: () => import('./sso.tsx') }],
  restorations: [restoration],
  restorationLimits: { sso: text.notRestored },
  actions: [
    {
      name: 'sso.disable',
      title: `${text.disable}…`,
      target: 'sso',
      needs: ['sso.disable'],
      isDestructive: true,
      isAvailable: ({ enabled }) => enabled,
      view: () => import('./disable.tsx'),
    },
    {
      name: 'sso.removeSecret',
      title: `${text.removeSecret}…`,
      target: 'sso',
      needs: ['sso.update'],
      isDestructive: true,
      isAvailable: ({ clientSecretSet }) => clientSecretSet,
      view: () => import('./remove-secret.tsx'),
    },
  ],
})
