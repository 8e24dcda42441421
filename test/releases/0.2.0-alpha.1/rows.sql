set search_path = multitenancy;
insert into tenants (id, name, status, metadata, domains, isolation, placement, locator, created_at, updated_at) values
  ('acme', 'Acme', 'active', '{"plan": "free"}', '{acme.example.com}', 'schema-pg', 'main', 't_acme', '2026-01-01', '2026-01-02'),
  ('globex', 'Globex', 'suspended', '{}', '{}', 'schema-pg', 'main', 't_globex', '2026-01-03', '2026-01-03');
insert into audit_entries (id, tenant_id, action, actor_type, actor_id, actor_name, target, before, after, outcome, created_at) values
  ('019b0000-0000-7000-8000-000000000001', 'acme', 'tenants.create', 'admin', 'ann', 'ann', 'tenant:acme', null, '{"name": "Acme"}', 'success', '2026-01-01'),
  ('019b0000-0000-7000-8000-000000000002', 'acme', 'tenants.update', 'admin', 'ann', 'ann', 'tenant:acme', '{"name": "A"}', '{"name": "Acme"}', 'success', '2026-02-01');
insert into branding (tenant_id, display_name, primary_color, updated_at) values ('acme', 'Acme', '#1a2b3c', '2026-01-01');
insert into feature_flags (id, tenant_id, key, enabled, rollout_percent, created_at, updated_at) values
  ('5b4be9a2-6a8a-4c5e-9c69-0d8c3ae0c1a1', 'acme', 'dark-mode', true, 50, '2026-01-01', '2026-01-01');
insert into webhook_subscriptions (id, tenant_id, url, events, enabled, secret, created_at, updated_at) values
  ('019b0000-0000-7000-8000-00000000000a', 'acme', 'https://example.com/hook', '{*}', true, '', '2026-01-01', '2026-01-01');
insert into webhook_messages (id, tenant_id, event, body, created_at) values
  ('019b0000-0000-7000-8000-00000000000b', 'acme', 'order.paid', '{"id": 1}', '2026-01-01');
insert into webhook_deliveries (id, message_id, webhook_id, tenant_id, partition_key, event, state, is_ready, attempt_count, last_status, created_at, delivered_at) values
  ('019b0000-0000-7000-8000-00000000000c', '019b0000-0000-7000-8000-00000000000b', '019b0000-0000-7000-8000-00000000000a', 'acme', 'acme', 'order.paid', 'delivered', false, 1, 200, '2026-01-01', '2026-01-01');
