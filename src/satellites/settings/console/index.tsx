/** Console module of the settings of tenants. */
import { runAction } from '../../../console/data/queries.ts'
import { defineConsoleModule } from '../../../console/module.ts'
import { restoration } from './restoration.ts'
import { paramsOf, type Target } from './setting.ts'
import { text } from './text.ts'

export default defineConsoleModule({
  name: 'settings',
  tabs: [
    {
      path: 'configuration',
      title: text.settings,
      needs: ['settings.list'],
      order: 92,
      view: () => import('./settings.tsx'),
    },
  ],
  actions: [
    {
      name: 'settings.set',
      title: `${text.set}…`,
      target: 'setting',
      needs: ['settings.set'],
      view: () => import('./set.tsx'),
    },
    {
      name: 'settings.reveal',
      title: `${text.reveal}…`,
      target: 'setting',
      needs: ['settings.reveal'],
      isAvailable: ({ isSecret, isSet }: Target) => isSecret && isSet,
      view: () => import('./reveal.tsx'),
    },
    {
      name: 'settings.delete',
      title: text.reset,
      target: 'setting',
      needs: ['settings.delete', 'settings.set'],
      isAvailable: ({ source, isSecret }: Target) => source === 'tenant' && !isSecret,
      run: (setting: Target) =>
        runAction(
          'settings.delete',
          { params: paramsOf(setting) },
          {
            done: text.resetDone(setting.name),
            undo: () => runAction('settings.set', { params: paramsOf(setting), body: { value: setting.value } }),
          },
        ),
    },
    {
      name: 'settings.deleteSecret',
      title: `${text.reset}…`,
      target: 'setting',
      needs: ['settings.delete'],
      isDestructive: true,
      isAvailable: ({ source, isSecret }: Target) => source === 'tenant' && isSecret,
      view: () => import('./delete-secret.tsx'),
    },
  ],
  announced: ['settings.list'],
  restorations: [restoration],
  restorationLimits: { setting: text.notRestored },
})
