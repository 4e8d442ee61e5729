// Other names for the kernels of common/kernels/*.cu that host_cuda.h builds for the host. They let
// both versions be linked into one program. A test that includes this file first calls those of the
// host.
#pragma once

#define fill_uniform cu_fill_uniform
#define gather_batch cu_gather_batch
#define add_bias cu_add_bias
#define relu_backward cu_relu_backward
#define drop_values cu_drop_values
#define sum_rows cu_sum_rows
#define softmax_cross_entropy cu_softmax_cross_entropy
#define sum_stats cu_sum_stats
#define sgd_step cu_sgd_step
#define nesterov_step cu_nesterov_step
#define adam_step cu_adam_step
#define adadelta_step cu_adadelta_step
#define add_to cu_add_to
#define sum_squares cu_sum_squares
#define clip_to_norm cu_clip_to_norm
#define to_bfloat16 cu_to_bfloat16
#define from_bfloat16 cu_from_bfloat16
#define fill cu_fill
#define add_relu cu_add_relu
#define image_to_patches cu_image_to_patches
#define patches_to_image cu_patches_to_image
#define max_pool cu_max_pool
#define max_pool_backward cu_max_pool_backward
#define mean_pool cu_mean_pool
#define mean_pool_backward cu_mean_pool_backward
#define group_norm cu_group_norm
#define group_norm_backward cu_group_norm_backward
#define multiply_by_normalised cu_multiply_by_normalised
#define augment_images cu_augment_images
#define fill_normal cu_fill_normal
#define look_up cu_look_up
#define look_up_backward cu_look_up_backward
#define gelu cu_gelu
#define gelu_backward cu_gelu_backward
#define split_heads cu_split_heads
#define merge_heads cu_merge_heads
#define causal_softmax cu_causal_softmax
#define causal_softmax_backward cu_causal_softmax_backward
